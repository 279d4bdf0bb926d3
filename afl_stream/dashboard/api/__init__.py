"""The JSON API under `/api`: the same views and actions as the pages, and an OpenAPI document of them."""

#: The modules that other packages import.
PUBLIC_MODULES = ("routes",)
