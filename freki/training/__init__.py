"""Learns the weights of the reranker that Freki carries, and measures it: `python -m freki.training --help`.

material   documents, and questions of which they hold the answers
pairs      reads them from files
sources    which files we know: how their lines are read, how often they are asked, their licences
examples   which questions are learned from, and which are kept to judge by
cache      arrays that are computed once
encoders   the embedder of hybrid search, with its vectors kept
mining     hybrid search in memory
rarity     how much a piece of a word tells
features   what the reranker adds up, as the code that serves computes it
weigh      the weights of a sum that puts answers first
calibrate  sums become probabilities
train      all of that, in its order
run        what is kept of it
figures    how good the reranker is on a set, as it is served
measure    the same for several sets
plot, card what its users should know
bundle     packs a sentence encoder, so that Freki can carry it
console    progress and errors
"""
