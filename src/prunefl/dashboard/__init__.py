"""A live page for runs and federations: reads records and status files, never live objects, and changes nothing."""
