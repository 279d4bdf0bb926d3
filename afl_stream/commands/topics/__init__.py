"""Commands about topics: plan and create them, and the rights of those who use them."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("plans",)
