"""Rights of people: erasure, holds, retention by rules, objections, and what is stored about somebody."""
