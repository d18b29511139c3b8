"""The comparison of tuning methods: plan, preparation, methods and results."""
