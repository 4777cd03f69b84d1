"""View-models: columns of a profile in, plain data and figures out. No browser, no database, no callbacks."""
