"""What every server of HTTP here needs: who may ask, a guard before requests, bodies of JSON, and a thread that serves.

The dashboard and the gateway stand on it.
"""

#: The modules that other packages import.
PUBLIC_MODULES = ("access", "bodies", "documents", "guard", "parameters", "rates", "serving", "sessions")
