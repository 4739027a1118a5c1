//! A pipeline as a graph: its elements, their changed properties and their links. Names are the same in every run, so that
//! the text can be compared with a golden file (DOT contains addresses).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gstreamer as gst;
use gstreamer::prelude::*;
use serde::{Deserialize, Serialize};

use super::svg;

/// Elements and links of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineGraph {
    nodes: Vec<Node>,
    /// Both ends of each link as (element, pad).
    edges: Vec<((String, String), (String, String))>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Node {
    name: String,
    factory: String,
    /// Properties with a value other than the default.
    properties: Vec<(String, String)>,
}

impl PipelineGraph {
    /// The elements of a bin, without the children of nested bins.
    pub fn from_bin(bin: &gst::Bin) -> Self {
        let mut elements: Vec<gst::Element> = bin.iterate_elements().into_iter().flatten().collect();
        // In the order of the text: the iterator gives the newest first.
        elements.reverse();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut stable_names: BTreeMap<String, String> = BTreeMap::new();
        for element in &elements {
            let (name, factory) = (element.name().to_string(), factory_name(element));
            let is_named = name.strip_prefix(&factory).is_none_or(|suffix| suffix.parse::<u32>().is_err());
            let stable_name = if is_named {
                name.clone()
            } else {
                let count = counts.entry(factory.clone()).or_default();
                *count += 1;
                if *count == 1 { factory } else { format!("{factory}-{count}") }
            };
            stable_names.insert(name, stable_name);
        }
        let name_of = |element: &gst::Element| stable_names.get(element.name().as_str()).cloned().unwrap_or_default();
        let mut nodes: Vec<Node> = elements
            .iter()
            .map(|element| Node {
                name: name_of(element),
                factory: factory_name(element),
                properties: changed_properties(element),
            })
            .collect();
        let mut edges = Vec::new();
        for element in &elements {
            for pad in element.src_pads() {
                let Some(peer) = pad.peer() else { continue };
                let Some(other) = peer.parent_element() else { continue };
                let (from, to) = (name_of(element), name_of(&other));
                edges.push(((from, pad.name().to_string()), (to, peer.name().to_string())));
            }
        }
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        edges.sort();
        Self { nodes, edges }
    }

    /// One line for each element and each link.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for node in &self.nodes {
            let _ = write!(out, "{}", node.name);
            if node.name != node.factory {
                let _ = write!(out, " ({})", node.factory);
            }
            for (name, value) in &node.properties {
                let _ = write!(out, " {name}={value}");
            }
            out.push('\n');
        }
        for ((from, out_of), (to, into)) in &self.edges {
            let _ = writeln!(out, "{from}.{out_of} -> {to}.{into}");
        }
        out
    }

    /// A Mermaid flow chart.
    pub fn to_mermaid(&self) -> String {
        let mut out = String::from("flowchart LR\n");
        let id = |name: &str| name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        for node in &self.nodes {
            let label = if node.name == node.factory {
                node.factory.clone()
            } else {
                format!("{}<br/>{}", node.factory, node.name)
            };
            // The prefix avoids Mermaid's keywords.
            let _ = writeln!(out, "  n_{}[\"{label}\"]", id(&node.name));
        }
        for ((from, _), (to, _)) in &self.edges {
            let _ = writeln!(out, "  n_{} --> n_{}", id(from), id(to));
        }
        out
    }

    /// An SVG image.
    pub fn to_svg(&self) -> String {
        let index_of = |name: &str| self.nodes.iter().position(|node| node.name == name);
        let elements: Vec<Vec<String>> = self.nodes.iter().map(box_lines).collect();
        let links = self.edges.iter().filter_map(|((from, _), (to, _))| Some((index_of(from)?, index_of(to)?)));
        svg::render_svg(&elements, &links.collect::<Vec<_>>())
    }
}

/// The lines of text in a node's box.
fn box_lines(node: &Node) -> Vec<String> {
    let own_name = (node.name != node.factory).then(|| node.name.clone());
    let properties = node.properties.iter().map(|(name, value)| format!("{name}={value}"));
    let truncate = |line: String| match line.char_indices().nth(48) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    };
    std::iter::once(node.factory.clone()).chain(own_name).chain(properties).map(truncate).collect()
}

fn factory_name(element: &gst::Element) -> String {
    element.factory().map_or_else(|| "?".into(), |factory| factory.name().to_string())
}

/// Properties of simple types that differ from their default.
fn changed_properties(element: &gst::Element) -> Vec<(String, String)> {
    use gst::glib::Type;
    let plain_types = [Type::BOOL, Type::STRING, Type::I32, Type::U32, Type::I64, Type::U64];
    let mut properties: Vec<(String, String)> = Vec::new();
    for property in element.list_properties() {
        let flags = property.flags();
        let name = property.name();
        if !flags.contains(glib::ParamFlags::READWRITE) || matches!(name, "name" | "parent") {
            continue;
        }
        let is_plain = property.value_type().is_a(glib::Type::ENUM)
            || property.value_type().is_a(gst::Caps::static_type())
            || plain_types.contains(&property.value_type());
        if !is_plain {
            continue;
        }
        let value = element.property_value(name);
        let text = |value: &glib::Value| value.serialize().map(|text| text.to_string()).unwrap_or_default();
        let (current, default) = (text(&value), text(property.default_value()));
        // URIs contain a descriptor's number, which changes with every run.
        if current != default && !matches!(name, "uri" | "location" | "descriptor") {
            properties.push((name.to_owned(), current));
        }
    }
    properties.sort();
    properties
}
