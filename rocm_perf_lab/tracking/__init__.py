"""Runs in MLflow, or nowhere."""
