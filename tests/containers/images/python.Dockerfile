# The Python of the machine that builds it, with the libraries it needs: no shell, no pip.
FROM scratch
ADD python.tar /
ENV PATH=/usr/local/bin PYTHONUNBUFFERED=1
ENTRYPOINT []
CMD ["python3"]
