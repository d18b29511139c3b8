"""The explorer: a local page with sliders for parameters, and live measures and rankings."""
