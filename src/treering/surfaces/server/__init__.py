"""The HTTP server: routes over one ledger, who may use them, and live streams."""
