"""Training and evaluation of the bundled reranker: `python -m freki.training --help`.

dataset    documents and training queries
pairs      reading of a dataset from files
sources    known files: conversion of lines, sampling weights, licences
examples   split into training and held-out queries
cache      arrays cached on disk
encoders   the embedder of hybrid search, with cached vectors
mining     hybrid search in memory
rarity     weights of word pieces by rarity
features   features of the reranker, computed by the serving code
weigh      weights of the features by listwise loss
calibrate  Platt scaling, and calibration error
train      the training pipeline
run        the record of a training
figures    metrics of the reranker on a set
measure    metrics on several sets
plot, card the model card
bundle     packing of a sentence encoder for bundling
console    progress and errors
"""
