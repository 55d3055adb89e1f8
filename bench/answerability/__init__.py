"""How well can a result tell that nothing in the index answers its question? `python -m bench.answerability`."""
