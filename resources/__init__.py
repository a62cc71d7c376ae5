"""Everything that touches disk, SQL or network. Importing a resource never imports dagster."""
