# The broker of `freki up`: one static program, records in memory. Clients find it at ADVERTISED_LISTENER_URL.
FROM scratch
COPY tansu /tansu
ENV LISTENER_URL=tcp://0.0.0.0:9092 STORAGE_ENGINE=memory://tansu/
EXPOSE 9092
STOPSIGNAL SIGINT
ENTRYPOINT ["/tansu", "broker"]
