//! What is simulated: the node, as the simulator uses it.

use forebay_core::config::NodeConfig;
use forebay_core::effect::{Effect, Input};
use forebay_core::id::Position;
use forebay_core::machine::Machine;
use forebay_core::message::Status;
use forebay_core::node::Node;
use forebay_core::record::Record;
use forebay_core::recovery::{self, HeldBy, PieceCheck};
use forebay_core::time::Time;

/// A machine that the simulator can start, and start again from its journal.
pub trait Subject: Machine<Input = Input, Effect = Effect> + Sized {
    /// A machine with an empty buffer.
    ///
    /// # Errors
    /// Says why the configuration cannot be used.
    fn start(config: NodeConfig, now: Time) -> Result<Self, String>;

    /// What it says about itself, for a report.
    fn status(&self) -> Status;

    /// A machine from its journal, and where history was cut. With `held` it takes over from one that clients still use.
    ///
    /// # Errors
    /// Says why the journal cannot be used.
    fn recover(
        config: NodeConfig,
        records: Vec<(Position, Record)>,
        memory_intact: bool,
        now: Time,
        check: &mut dyn FnMut(&PieceCheck) -> bool,
        held: Option<&mut HeldBy<'_>>,
    ) -> Result<(Self, Option<Position>), String>;
}

impl Subject for Node {
    fn start(config: NodeConfig, now: Time) -> Result<Node, String> {
        Node::new(config, now).map_err(|error| error.to_string())
    }

    fn status(&self) -> Status {
        Node::status(self)
    }

    fn recover(
        config: NodeConfig,
        records: Vec<(Position, Record)>,
        memory_intact: bool,
        now: Time,
        check: &mut dyn FnMut(&PieceCheck) -> bool,
        held: Option<&mut HeldBy<'_>>,
    ) -> Result<(Node, Option<Position>), String> {
        let recovered = recovery::recover(config, records, memory_intact, now, check, held).map_err(|error| error.to_string())?;
        Ok((recovered.node, recovered.cut_at))
    }
}
