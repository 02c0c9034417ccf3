//! The columns of a data log, as `cogrs.log_schema` has them.

use std::sync::LazyLock;

use crate::store::parquet::thrift::Struct;

/// The physical type of a column, and what its values stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A flag.
    Flag,
    /// 64 bits with a sign.
    Integer,
    /// 64 bits without a sign.
    Unsigned,
    /// A float of 32 bits.
    Number,
    /// UTF-8.
    Text,
    /// Bytes.
    Data,
}

impl Kind {
    /// Returns Parquet's number of the physical type.
    pub fn physical(self) -> i32 {
        match self {
            Self::Flag => 0,
            Self::Integer | Self::Unsigned => 2,
            Self::Number => 4,
            Self::Text | Self::Data => 6,
        }
    }
}

/// A column without parts.
#[derive(Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Its name and those that it is part of, the outermost first.
    pub path: Vec<&'static str>,
    /// Its type.
    pub kind: Kind,
    /// The definition level of a value that is there.
    pub definition: u32,
    /// The repetition level of a value within the innermost list; 0 outside of lists.
    pub repetition: u32,
}

/// The schema of a file.
#[derive(Debug)]
pub struct Schema {
    /// The columns without parts, in their order.
    pub leaves: Vec<Leaf>,
    /// Serialized elements of the schema, depth first.
    pub elements: Vec<Box<[u8]>>,
}

enum Node {
    Leaf(Kind),
    Group(Vec<(&'static str, Node)>),
    List(Box<Node>),
}

/// The schema of all files.
pub static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    use Kind::{Data, Flag, Integer, Number, Text, Unsigned};
    use Node::{Group, Leaf, List};
    let list = |item| List(Box::new(item));
    let payload = || {
        let shape = list(Leaf(Unsigned));
        Group(vec![("kind", Leaf(Text)), ("shape", shape), ("data", Leaf(Data))])
    };
    let source =
        vec![("sender", Leaf(Text)), ("value", Leaf(Number)), ("confidence", Leaf(Number))];
    let sources = list(Group(source));
    let reward = vec![("tick", Leaf(Integer)), ("value", Leaf(Number)), ("sources", sources)];
    let message = vec![
        ("sender", Leaf(Text)),
        ("tick", Leaf(Integer)),
        ("type", Leaf(Text)),
        ("data", Leaf(Data)),
    ];
    let columns = vec![
        ("trial_id", Leaf(Text)),
        ("sample", Leaf(Integer)),
        ("tick", Leaf(Integer)),
        ("timestamp", Leaf(Unsigned)),
        ("actor", Leaf(Text)),
        ("actor_class", Leaf(Text)),
        ("observation", payload()),
        ("terminated", Leaf(Flag)),
        ("truncated", Leaf(Flag)),
        ("action", payload()),
        ("rewards", list(Group(reward))),
        ("messages", list(Group(message))),
        ("user_id", Leaf(Text)),
        ("end_reason", Leaf(Text)),
        ("stood_in", Leaf(Flag)),
    ];
    let mut schema = Schema { leaves: vec![], elements: vec![] };
    let mut root = Struct::default();
    root.i32(3, REQUIRED);
    root.binary(4, b"schema");
    root.i32(5, columns.len() as i32);
    schema.elements.push(root.end().into());
    for (name, node) in &columns {
        schema.add(name, node, &[], 0, 0);
    }
    schema
});

const REQUIRED: i32 = 0;
const OPTIONAL: i32 = 1;
const REPEATED: i32 = 2;

impl Schema {
    fn add(
        &mut self,
        name: &'static str,
        node: &Node,
        above: &[&'static str],
        definition: u32,
        repetition: u32,
    ) {
        let definition = definition + 1;
        let path = [above, &[name]].concat();
        match node {
            Node::Leaf(kind) => {
                self.elements.push(leaf_element(name, *kind).into());
                self.leaves.push(Leaf { path, kind: *kind, definition, repetition });
            }
            Node::Group(parts) => {
                self.elements.push(group_element(name, OPTIONAL, parts.len(), false).into());
                for (name, part) in parts {
                    self.add(name, part, &path, definition, repetition);
                }
            }
            Node::List(item) => {
                self.elements.push(group_element(name, OPTIONAL, 1, true).into());
                self.elements.push(group_element("list", REPEATED, 1, false).into());
                let path = [&path[..], &["list"]].concat();
                self.add("element", item, &path, definition + 1, repetition + 1);
            }
        }
    }
}

fn leaf_element(name: &str, kind: Kind) -> Vec<u8> {
    let mut made = Struct::default();
    made.i32(1, kind.physical());
    made.i32(3, OPTIONAL);
    made.binary(4, name.as_bytes());
    match kind {
        Kind::Text => {
            made.i32(6, 0);
            made.part(10, |logical| logical.part(1, |_| {}));
        }
        Kind::Unsigned => {
            made.i32(6, 14);
            made.part(10, |logical| {
                logical.part(10, |integer| {
                    integer.i8(1, 64);
                    integer.flag(2, false);
                });
            });
        }
        _ => {}
    }
    made.end()
}

fn group_element(name: &str, repetition: i32, parts: usize, is_list: bool) -> Vec<u8> {
    let mut made = Struct::default();
    made.i32(3, repetition);
    made.binary(4, name.as_bytes());
    made.i32(5, parts as i32);
    if is_list {
        made.i32(6, 3);
        made.part(10, |logical| logical.part(3, |_| {}));
    }
    made.end()
}

#[cfg(test)]
mod tests {
    use super::{Kind, SCHEMA};

    #[test]
    fn levels_count_what_may_be_missing_and_what_repeats() {
        let levels = |path: &str| {
            let found = SCHEMA.leaves.iter().find(|leaf| leaf.path.join(".") == path);
            found.map(|leaf| (leaf.kind, leaf.definition, leaf.repetition))
        };
        assert_eq!(levels("trial_id"), Some((Kind::Text, 1, 0)));
        assert_eq!(levels("action.data"), Some((Kind::Data, 2, 0)));
        assert_eq!(levels("observation.shape.list.element"), Some((Kind::Unsigned, 4, 1)));
        assert_eq!(levels("rewards.list.element.tick"), Some((Kind::Integer, 4, 1)));
        let sender = "rewards.list.element.sources.list.element.sender";
        assert_eq!(levels(sender), Some((Kind::Text, 7, 2)));
        assert_eq!(SCHEMA.leaves.len(), 26);
        // The root, 26 leaves, 2 observations and actions, 5 lists of 2 elements, 3 items with parts.
        assert_eq!(SCHEMA.elements.len(), 1 + 26 + 2 + 5 * 2 + 3);
    }
}
