"""What learns from lists with features: networks, and boosted trees."""
