"""Measures retrieval through the real pipeline.

configuration  which knobs a query turns
corpus         which documents are published, and under which tenant
examine        questions are asked, answers judged
result         what is kept of them, for reports and for later comparison
"""
