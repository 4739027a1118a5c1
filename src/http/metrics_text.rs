//! Metrics in the text format of Prometheus, version 0.0.4: `# HELP`, `# TYPE`, and a line per sample.

use std::fmt::{Display, Write as _};

/// The content type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// A number that only grows until the server ends. Its name ends in `_total`.
    Counter,
    /// A number at this moment.
    Gauge,
}

impl MetricType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        }
    }
}

/// The text under construction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsText(String);

impl MetricsText {
    /// Adds a metric with its samples: each has labels (name and value) and a number.
    pub fn add<V: Display>(
        &mut self,
        name: &str,
        metric_type: MetricType,
        help: &str,
        samples: impl IntoIterator<Item = (Vec<(&'static str, String)>, V)>,
    ) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {}", metric_type.as_str());
        for (labels, value) in samples {
            let labels: Vec<String> =
                labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escape_label(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }

    /// Adds a metric with one sample and without labels.
    pub fn add_single(&mut self, name: &str, metric_type: MetricType, help: &str, value: impl Display) {
        self.add(name, metric_type, help, [(Vec::new(), value)]);
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

fn escape_label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_has_its_help_its_type_and_its_samples() {
        let mut text = MetricsText::default();
        text.add_single("up", MetricType::Gauge, "Two\nlines with a \\.", 1);
        let label = |value: &str| vec![("cause", value.to_owned()), ("n", "1".to_owned())];
        text.add("deaths_total", MetricType::Counter, "Deaths.", [(label("a\"b\\c\nd"), 2), (label("killed"), 0)]);
        let expected = "# HELP up Two\\nlines with a \\\\.\n# TYPE up gauge\nup 1\n\
            # HELP deaths_total Deaths.\n# TYPE deaths_total counter\n\
            deaths_total{cause=\"a\\\"b\\\\c\\nd\",n=\"1\"} 2\ndeaths_total{cause=\"killed\",n=\"1\"} 0\n";
        assert_eq!(text.into_string(), expected);
    }
}
