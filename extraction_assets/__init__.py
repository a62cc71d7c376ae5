"""The Dagster layer and the composition root: YAML in, assets, checks and jobs out."""
