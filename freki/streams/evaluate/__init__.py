"""Measures retrieval through the real pipeline.

configuration  which options a query turns
corpus         which documents are published, and under which tenant
examine        questions are asked, answers judged
result         what is kept of them, for reports and for later comparison

Tunes it, by the same means:

turns          options with the values that are tried
pose           how questions are asked meanwhile
ledger         what was asked already, and what is asked now
tuner          one option after the other
worth          answers as gains and costs
tuning         what is kept of them

Takes it apart, by the same means:

ablation       configurations that show what each step is worth
ablated        what is kept of their answers
timing         how long answers take, for both
"""
