"""Tools for agents: the kinds of requests as functions that a language model may call.

definition  what there is to call, with which arguments: the one place that says it
json_schema schemas of arguments, also as OpenAI's strict mode takes them
reply       a result as an agent reads it
toolbox     from a call to its reply
line        a connection that is opened when it is needed
"""
