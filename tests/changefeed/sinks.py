"""What declarations in these tests begin with."""

KAFKA = "kafka://broker:9092/topic?protocol="
LARGE = "[sink.kafka-config.large-message-handle]\n"
CSV = "file:///data?protocol=csv"
CANAL_FILES = "s3://bucket/prefix?protocol=canal-json"
CLAIM = LARGE + "large-message-handle-option = 'claim-check'\n"
