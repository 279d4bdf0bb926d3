"""Every error code of librdkafka and of Kafka's protocol, and the reaction to it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from confluent_kafka import KafkaError


class Decision(Enum):
    """The reaction to an error, worded as docs/kafka.md has it."""

    #: librdkafka goes on by itself. Told by a reader's poll it is no news; a call that fails with it is made again.
    PASS = "librdkafka recovers by itself"
    #: Waiting mends it: tried again with backoff, for `kafka.outage_timeout_s` at most.
    WAIT = "waited for, with backoff, for kafka.outage_timeout_s at most"
    #: The group has gone on without this member: it joins again, and what it lost is handled again.
    FENCED = "the member joins its group again"
    #: This client will never work again: another one takes its place, and what it held is sent again.
    RECREATE = "the client is replaced by another one"
    #: A position outside the log, or on a log that was cut.
    OUT_OF_RANGE = "reported with the lost range; lost_records decides"
    UNKNOWN_TOPIC = "reported with the command that creates the topic"
    #: The record is at fault, and nothing else is held up by it.
    RECORD = "that record alone is given up"
    #: No waiting mends it: the process ends and says what is missing.
    NOT_ALLOWED = "ends with 3: an ACL is missing"
    AUTHENTICATION = "ends with 3: the credentials are refused"
    TOO_OLD = "ends with 3: the broker lacks something"
    #: A request or a setting that is wrong, or an answer to a request that is never made here.
    MISTAKE = "ends, and says what was refused"


_NAMES: Final[Mapping[Decision, str]] = {
    Decision.PASS: """
        NO_ERROR _PARTITION_EOF _ALL_BROKERS_DOWN _TRANSPORT _RESOLVE _TIMED_OUT _MAX_POLL_EXCEEDED _NOOP
        _ASSIGN_PARTITIONS _REVOKE_PARTITIONS _NODE_UPDATE _DESTROY_BROKER _NO_OFFSET _OUTDATED _RETRY _IN_PROGRESS
        _PREV_IN_PROGRESS _WAIT_COORD _WAIT_CACHE _UNKNOWN_BROKER
        COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR NOT_LEADER_FOR_PARTITION
        LEADER_NOT_AVAILABLE REBALANCE_IN_PROGRESS REQUEST_TIMED_OUT MEMBER_ID_REQUIRED UNKNOWN_LEADER_EPOCH
        FENCED_LEADER_EPOCH OFFSET_NOT_AVAILABLE REPLICA_NOT_AVAILABLE FETCH_SESSION_ID_NOT_FOUND
        INVALID_FETCH_SESSION_EPOCH REBOOTSTRAP_REQUIRED INCONSISTENT_TOPIC_ID
        """,
    Decision.WAIT: """
        _FAIL _DESTROY _CRIT_SYS_RESOURCE _FS _MSG_TIMED_OUT _QUEUE_FULL _ISR_INSUFF _STATE _TIMED_OUT_QUEUE _INTR
        _PURGE_QUEUE _PURGE_INFLIGHT _NOENT _UNKNOWN_GROUP _BAD_MSG _BAD_COMPRESSION _UNDERFLOW _PARTIAL _APPLICATION
        UNKNOWN INVALID_MSG BROKER_NOT_AVAILABLE STALE_CTRL_EPOCH NETWORK_EXCEPTION NOT_ENOUGH_REPLICAS
        NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_CONTROLLER KAFKA_STORAGE_ERROR LOG_DIR_NOT_FOUND LISTENER_NOT_FOUND
        STALE_BROKER_EPOCH UNSTABLE_OFFSET_COMMIT THROTTLING_QUOTA_EXCEEDED PREFERRED_LEADER_NOT_AVAILABLE
        ELIGIBLE_LEADERS_NOT_AVAILABLE GROUP_MAX_SIZE_REACHED UNRELEASED_INSTANCE_ID CONCURRENT_TRANSACTIONS
        UNKNOWN_CONTROLLER_ID UNKNOWN_SUBSCRIPTION_ID TELEMETRY_TOO_LARGE OPERATION_NOT_ATTEMPTED
        """,
    Decision.FENCED: """
        _ASSIGNMENT_LOST _FENCED ILLEGAL_GENERATION UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID FENCED_MEMBER_EPOCH
        STALE_MEMBER_EPOCH
        """,
    Decision.RECREATE: """
        _FATAL _INCONSISTENT _GAPLESS_GUARANTEE OUT_OF_ORDER_SEQUENCE_NUMBER DUPLICATE_SEQUENCE_NUMBER
        INVALID_PRODUCER_EPOCH INVALID_PRODUCER_ID_MAPPING UNKNOWN_PRODUCER_ID PRODUCER_FENCED
        """,
    Decision.OUT_OF_RANGE: "_AUTO_OFFSET_RESET _LOG_TRUNCATION OFFSET_OUT_OF_RANGE",
    Decision.UNKNOWN_TOPIC: "_UNKNOWN_TOPIC _UNKNOWN_PARTITION UNKNOWN_TOPIC_OR_PART UNKNOWN_TOPIC_ID",
    Decision.RECORD: """
        _KEY_SERIALIZATION _VALUE_SERIALIZATION _KEY_DESERIALIZATION _VALUE_DESERIALIZATION _INVALID_DIFFERENT_RECORD
        INVALID_MSG_SIZE MSG_SIZE_TOO_LARGE RECORD_LIST_TOO_LARGE INVALID_TIMESTAMP INVALID_RECORD
        OFFSET_METADATA_TOO_LARGE
        """,
    Decision.NOT_ALLOWED: """
        TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        """,
    Decision.AUTHENTICATION: """
        _AUTHENTICATION _SSL SASL_AUTHENTICATION_FAILED UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE
        DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_NOT_FOUND DELEGATION_TOKEN_OWNER_MISMATCH
        DELEGATION_TOKEN_REQUEST_NOT_ALLOWED DELEGATION_TOKEN_AUTHORIZATION_FAILED DELEGATION_TOKEN_EXPIRED
        UNACCEPTABLE_CREDENTIAL PRINCIPAL_DESERIALIZATION_FAILURE
        """,
    Decision.TOO_OLD: """
        _UNSUPPORTED_FEATURE UNSUPPORTED_VERSION UNSUPPORTED_FOR_MESSAGE_FORMAT UNSUPPORTED_COMPRESSION_TYPE
        """,
    Decision.MISTAKE: """
        _INVALID_ARG _EXISTING_SUBSCRIPTION _CONFLICT _UNKNOWN_PROTOCOL _NOT_IMPLEMENTED _READ_ONLY _INVALID_TYPE
        _NOT_CONFIGURED
        TOPIC_EXCEPTION INVALID_REQUIRED_ACKS INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID INVALID_SESSION_TIMEOUT
        INVALID_COMMIT_OFFSET_SIZE TOPIC_ALREADY_EXISTS INVALID_PARTITIONS INVALID_REPLICATION_FACTOR
        INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG INVALID_REQUEST POLICY_VIOLATION INVALID_TXN_STATE
        INVALID_TRANSACTION_TIMEOUT TRANSACTION_COORDINATOR_FENCED TRANSACTION_ABORTABLE SECURITY_DISABLED
        REASSIGNMENT_IN_PROGRESS NO_REASSIGNMENT_IN_PROGRESS INVALID_PRINCIPAL_TYPE NON_EMPTY_GROUP GROUP_ID_NOT_FOUND
        TOPIC_DELETION_DISABLED ELECTION_NOT_NEEDED GROUP_SUBSCRIBED_TO_TOPIC RESOURCE_NOT_FOUND DUPLICATE_RESOURCE
        INCONSISTENT_VOTER_SET INVALID_UPDATE_VERSION FEATURE_UPDATE_FAILED UNSUPPORTED_ASSIGNOR
        MISMATCHED_ENDPOINT_TYPE UNSUPPORTED_ENDPOINT_TYPE INVALID_REGISTRATION INVALID_RECORD_STATE
        SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH SHARE_SESSION_LIMIT_REACHED FENCED_STATE_EPOCH
        INVALID_VOTER_KEY DUPLICATE_VOTER VOTER_NOT_FOUND INVALID_REGULAR_EXPRESSION
        STREAMS_INVALID_TOPOLOGY STREAMS_INVALID_TOPOLOGY_EPOCH STREAMS_TOPOLOGY_FENCED
        """,
}

#: Names that this release knows; an older client library may lack some.
DECISIONS: Final[Mapping[int, Decision]] = {
    getattr(KafkaError, name): decision
    for decision, names in _NAMES.items()
    for name in names.split()
    if hasattr(KafkaError, name)
}


def decision_of(error: KafkaError) -> Decision:
    """Return the reaction to an error. A code that only a newer library or broker knows may pass: wait for it."""
    return DECISIONS.get(error.code(), Decision.WAIT)


def codes_of(*decisions: Decision) -> frozenset[int]:
    """Return the codes that have one of these reactions."""
    return frozenset(code for code, decision in DECISIONS.items() if decision in decisions)
