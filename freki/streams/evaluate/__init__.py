"""Measure retrieval through the real pipeline.

configuration  query options of a run
parts          questions of a part, without those dropped in review
corpus         documents to publish, and their tenant
examine        queries and judgement of their answers
result         results of an evaluation, for reports and later comparison

propose        questions proposed from documents, also by a language model
excerpt        the beginning of a section, for reviewers

Tune query options:

trials         options with the values to try
questions      questions to tune on
answers        cache of answers, by question and configuration
tuner          one option after the other
worth          answers as gains and costs
tuning         results of a tuning

Ablate steps of retrieval:

ablation       configurations without one step each
ablated        results of an ablation

timing         latencies, for tuning and ablation
"""
