"""Deploy tuned settings to search engines: configuration files, and differences from lmtune's scores."""
