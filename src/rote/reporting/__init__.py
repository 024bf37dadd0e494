"""Things for eyes: charts and pages. Never imports torch."""
