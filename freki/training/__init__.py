"""Training of late interaction, which reranks candidates: `python -m freki.training --help`.

dataset    documents and training queries
pairs      reading of a dataset from files
sources    known files: conversion of lines, sampling weights, licences
cache      arrays cached on disk
encoders   embedders of whole texts, with cached vectors
states     states of tokens in several layers of the embedder
means      mean token states of texts, cached
rarity     weights of word pieces by rarity
heads      what is learned: token vectors, distilled vectors, and their file
train      the training pipeline
run        the record of a training
mining     hybrid search in memory
weigh      weights of features by listwise loss
calibrate  Platt scaling
develop    weights and calibration from the development split of evaluation sets
bundle     packing of a sentence encoder for bundling
thesaurus  packing of synonyms
console    progress and errors
"""
