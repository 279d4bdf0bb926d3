"""The HTTP gateway: runs, events of facets and their answers for programs that cannot speak Kafka.

Workers take events by long polls and answer them; `leases` says who has which, and `holding` keeps them from being
committed meanwhile. `webhooks` posts events to URLs instead. A crash loses nothing: an event is committed after its
answer is acknowledged.
"""

#: The modules that other packages import.
PUBLIC_MODULES = ("metrics", "serving")
