"""The sensors: what looks for work and asks for runs. Each is handed its job and partitions."""
