"""Tables, figures, claims, the site."""
