"""From questions to results, in the order of the steps.

retriever     the order of the steps
query_parser  what a question wants, in which language, with which terms
exact         only what holds the quotations
query_options what a query may turn
profiles      what a model that reads the context can take
search        candidates: both searches, one fusion, what is live of the best
widen         further searches: the same question in other words
rewrite       those that a language model writes
chunk_reader  or chunks that the query names
live          which chunks may be quoted, and where they stand
rerank        the best candidates read together with the question
llm_reranker  a language model that grades them
select        the hits among them
expand        further chunks of the best documents
filtered_out  what to say where little is found
surround      what stands around the hits
quote         parts of hits that show why they were found
compose       the result
explainer     why it is as it is
caching       what was worked out before for the same principals
epochs        whether that is still true
judged        what users thought of answers to questions that are alike
query_state   what is known of one query between steps
attempts      calls within the time that is left
breaker       what is down is left alone
"""
