"""What only Apache Kafka has: runs with FREKI_TEST_STACK=kafka, which `make kafka` sets."""
