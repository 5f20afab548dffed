"""Course folders: what a workspace holds to learn from."""
