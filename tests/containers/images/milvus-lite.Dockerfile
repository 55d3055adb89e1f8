# The store of `freki up`, started as Milvus is: `milvus run standalone`.
ARG PYTHON
FROM ${PYTHON}
ADD milvus-lite.tar /
COPY milvus.py /usr/local/bin/milvus
# The server keeps scratch files at home, which may not be /.
ENV HOME=/var/lib/milvus
WORKDIR /var/lib/milvus
EXPOSE 19530
CMD ["milvus", "run", "standalone"]
