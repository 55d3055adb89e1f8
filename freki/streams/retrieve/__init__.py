"""From queries to results.

serving          which generation of the index answers a batch
handler          one result per query of a batch
authenticate     who asks, and in whose name a query is answered
memberships      groups of users, besides those in their tokens
replays          tokens that serve one query only
retriever        the order of the steps
dependencies     the store, models, clocks and settings of queries
profiles         limits of models that read the context

parsed_query     a query as parsed, and as embedded
search_result    variants of a query and their rankings
candidates       values that the steps hand on: candidates, selections, hits
query_log        notices and step times, which all steps add to
trace            a query as spans
losses           the step that left a candidate out, and why
explainer        the rank of each hit, and the step that lost an expected document
direct           calls within the process, without a topic
chunk_reader     chunks that a query names, instead of a search
follow_judgements  judgements of users, and their erasure

steps/, in the order in which they run:
query_parser     options, language, terms and type of a query
wait             until the index holds versions that the query asks for
query_embeddings  vectors of queries and of their tokens
judged           judgements on similar queries
search           candidates: both searches, fusion, late interaction, live check, rows
fuse             one ranking of several
match            late interaction of token vectors
live, keep_live  candidates that are live and readable
load             rows of candidates, and folding of equal texts
widen            further searches of variants of the query
variants         variants by rule
rewrite          variants by a language model
exact            candidates that hold what the query quotes, and cited norms first
rerank           the best candidates rescored
llm_reranker     a language model that grades candidates
select           hits among the candidates
locate           places of hits in their documents, and whether these still stand
expand           further chunks of the best documents
filtered_out     documents that only the filters keep out
surround         sections and neighbours of hits
cover            words of the query that hits have
proper_names     names of people, places and products in a query
absent           what the query names that no hit has
periods          days, months, years and spans of time that texts name
quote            snippets that show why a hit was found
compose          the result

budget/, the time of queries and the health of services:
attempts         calls within the time that is left, which may fail
breaker          no calls of services that are down
estimates        durations of steps
in_flight        queries in flight, and their shares of the cores
deadline_lock    one local reranking at a time, the most urgent first
load             durations of lookups by their number at once
admit            queries that there is time for

cache/, what queries need again:
caching          vectors, rankings and answers by principals
epochs           whether a cached value still holds
known_rows       rows that were read before
"""
