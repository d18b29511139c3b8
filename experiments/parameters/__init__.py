"""Methods of tuning as parameters grow in number."""
