"""Trains the reranker that Freki carries: `python -m freki.training --help`.

pairs      files of questions and their answers become documents and questions
sources    which files we know: how their lines are read, how often they are shown, their licences
vectors    texts are embedded, once
mining     hybrid search finds the candidates of each question
teachers   what two encoders say of texts
targets    which candidates are shown, and which order they should have
augment    questions as people type them
batches    what the student sees at once
encoder    BERT in torch
student    the model that is trained
beginning  where its parts start
fit        the loop
calibrate  logits become probabilities
artefact   what is kept
figures    how good it is, as it is served
plot       curves
card       what its users should know
"""
