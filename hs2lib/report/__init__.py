"""Tables, figures, claims, pages."""
