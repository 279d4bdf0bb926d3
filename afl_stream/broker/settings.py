"""The settings of a broker of ours: the facts, and the server.properties that say them."""

import base64
import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from afl_stream.broker.ports import HOST

#: Small and quick: groups form at once, members may ask to be missed after a second, a killed broker is soon back.
DEFAULTS: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    "background.threads": "2",
    # One that was killed may register again only when its old session is over.
    "broker.heartbeat.interval.ms": "400",
    "broker.session.timeout.ms": "2000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "num.io.threads": "2",
    "num.network.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}

#: One for clients without credentials, and the controller's.
_USUAL_LISTENERS: Final = 2
#: The user without a password: connections to the plain listener.
_SUPER_USER = "User:ANONYMOUS"


def replication(brokers: int) -> dict[str, str]:
    """Return the properties that follow from the number of brokers in a cluster."""
    copies = str(min(3, brokers))
    in_sync = "2" if brokers > 2 else "1"
    return {
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.replication.factor": copies,
    }


def new_cluster_id() -> str:
    """Return a fresh cluster id: 22 characters, as Kafka writes a UUID."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # A leading dash would be read as an option by the format tool.
        if not text.startswith("-"):
            return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A listener beside the usual one, whose clients may do only what ACLs allow.

    `protocol`: SSL, SASL_SSL or SASL_PLAINTEXT. `properties` are those of this listener, without `listener.name.NAME.`.
    """

    name: str
    protocol: str
    properties: Mapping[str, str] = field(default_factory=dict)
    port: int = 0

    @property
    def bootstrap(self) -> str:
        """The address for its clients."""
        return f"{HOST}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """All that a start needs to know. `directory` holds everything that the broker writes.

    `voters` maps the node id of each controller of the cluster to its port.
    `libraries` is the folder of Kafka's jars; None: those of this package's pom.xml.
    `guardian_pid` is the process with which the broker dies; None: it lives until it is stopped.
    """

    directory: Path
    cluster_id: str
    port: int
    controller_port: int
    node_id: int = 1
    voters: Mapping[int, int] = field(default_factory=dict)
    sasl_port: int | None = None
    scram_users: Mapping[str, str] = field(default_factory=dict)
    listeners: tuple[Listener, ...] = ()
    features: Mapping[str, int] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    java_options: tuple[str, ...] = ()
    heap_mb: int = 512
    libraries: Path | None = None
    guardian_pid: int | None = None

    @property
    def bootstrap(self) -> str:
        """The address for clients without credentials."""
        return f"{HOST}:{self.port}"

    @property
    def sasl_bootstrap(self) -> str | None:
        """The address for clients that log in, where there are users."""
        return None if self.sasl_port is None else f"{HOST}:{self.sasl_port}"

    @property
    def data_path(self) -> Path:
        """The folder of the logs that Kafka keeps."""
        return self.directory / "data"

    @property
    def properties_path(self) -> Path:
        """The server.properties. Its path in the command line tells that a process is this broker."""
        return self.directory / "server.properties"

    @property
    def log_path(self) -> Path:
        """What the broker printed, over all its starts."""
        return self.directory / "broker.log"

    def server_properties(self) -> dict[str, str]:
        """Return the whole of server.properties, the given properties last."""
        voters = self.voters or {self.node_id: self.controller_port}
        listeners = {"PLAINTEXT": self.port, "CONTROLLER": self.controller_port}
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
        lines = {
            **DEFAULTS,
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "controller.quorum.voters": ",".join(f"{node}@{HOST}:{port}" for node, port in sorted(voters.items())),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data_path),
            **replication(len(voters)),
        }
        if self.sasl_port is not None:
            listeners["SASL"] = self.sasl_port
            protocols["SASL"] = "SASL_PLAINTEXT"
            lines |= {
                "listener.name.sasl.scram-sha-256.sasl.jaas.config": (
                    "org.apache.kafka.common.security.scram.ScramLoginModule required;"
                ),
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            }
        for listener in self.listeners:
            listeners[listener.name] = listener.port
            protocols[listener.name] = listener.protocol
            start = f"listener.name.{listener.name.lower()}."
            lines |= {start + name: value for name, value in listener.properties.items()}
        if len(listeners) > _USUAL_LISTENERS:
            lines |= {
                "allow.everyone.if.no.acl.found": "false",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": _SUPER_USER,
            }
        lines["listeners"] = ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items())
        lines["listener.security.protocol.map"] = ",".join(f"{name}:{kind}" for name, kind in protocols.items())
        lines["inter.broker.listener.name"] = "PLAINTEXT"
        return {**lines, **self.properties}

    def to_json(self) -> str:
        """Write the settings down, for a later process that finds the broker by its directory."""
        libraries = None if self.libraries is None else str(self.libraries)
        return json.dumps({**asdict(self), "directory": str(self.directory), "libraries": libraries}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> "BrokerSettings":
        """Read what `to_json` wrote."""
        fields = json.loads(text)
        fields["directory"] = Path(fields["directory"])
        # Not written down by earlier versions.
        libraries = fields.get("libraries")
        fields["libraries"] = None if libraries is None else Path(libraries)
        fields["voters"] = {int(node): port for node, port in fields["voters"].items()}
        fields["listeners"] = tuple(Listener(**each) for each in fields["listeners"])
        fields["java_options"] = tuple(fields["java_options"])
        return cls(**fields)
