"""Profiles compared, drawn as data, and exported. Plain data first; rendering is in the export modules and the app."""
