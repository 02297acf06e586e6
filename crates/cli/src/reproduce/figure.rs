//! What a figure is: how it is made, what it found, and when it agrees with its paper.

use serde::Serialize;

use super::claims::Claims;
use super::lab::Lab;
use crate::error::Error;

/// A figure or table of a paper.
pub(crate) struct Figure {
    /// Its name: the paper, then the number that it has there.
    pub(crate) name: &'static str,
    /// What it shows.
    pub(crate) title: &'static str,
    /// Makes it.
    pub(crate) run: fn(&Lab<'_>) -> Result<Findings, Error>,
    /// What the paper says of it.
    pub(crate) checks: &'static [Check],
}

/// A statement of the paper, and what of our findings it is held against.
pub(crate) struct Check {
    /// The statement's id among the claims.
    pub(crate) claim: &'static str,
    /// What our number is.
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    /// Our number; none if there is none, and then there is no agreement.
    pub(crate) measure: fn(&Findings) -> Option<f64>,
    pub(crate) rule: Rule,
    /// Why, if it does not agree.
    pub(crate) otherwise: &'static str,
}

/// When our number agrees with the paper's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Rule {
    /// It is no smaller than theirs less this.
    AtLeast(f64),
    /// It is no larger than theirs and this.
    AtMost(f64),
    /// It differs by no more than this.
    Within(f64),
    /// One is no more than so many times the other.
    Factor(f64),
    /// The paper says it in words; by them our number is no smaller than this.
    NotBelow(f64),
    /// The paper says it in words; by them our number is no larger than this.
    NotAbove(f64),
}

impl Rule {
    /// Whether our number agrees; `theirs` is the paper's, if it prints one.
    pub(crate) fn agrees(self, ours: f64, theirs: Option<f64>) -> bool {
        match (self, theirs) {
            (Rule::NotBelow(bound), _) => ours >= bound,
            (Rule::NotAbove(bound), _) => ours <= bound,
            (_, None) => false,
            (Rule::AtLeast(slack), Some(theirs)) => ours >= theirs - slack,
            (Rule::AtMost(slack), Some(theirs)) => ours <= theirs + slack,
            (Rule::Within(slack), Some(theirs)) => (ours - theirs).abs() <= slack,
            (Rule::Factor(factor), Some(theirs)) => ours <= theirs * factor && theirs <= ours * factor,
        }
    }

    /// The rule in words.
    pub(crate) fn words(self, unit: &str) -> String {
        let unit = if unit == "%" { "points" } else { unit };
        match self {
            Rule::AtLeast(0.0) => "not below it".into(),
            Rule::AtLeast(slack) => format!("not below it by more than {slack} {unit}"),
            Rule::AtMost(0.0) => "not above it".into(),
            Rule::AtMost(slack) => format!("not above it by more than {slack} {unit}"),
            Rule::Within(slack) => format!("within {slack} {unit} of it"),
            Rule::Factor(factor) => format!("within a factor of {factor}"),
            Rule::NotBelow(bound) => format!("not below {bound} {unit}"),
            Rule::NotAbove(bound) => format!("not above {bound} {unit}"),
        }
    }
}

/// What the numbers along an axis are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Axis {
    /// Bytes.
    Bytes,
    /// Percent.
    Percent,
    /// Numbers of something, each twice the one before or so.
    Count,
    /// Seconds.
    Seconds,
    /// Distances in chunks, each standing for the range up to the next.
    Chunks,
    /// Nothing to measure: the places of the names in `ticks`.
    Names,
}

/// A line of a plot.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// Where there is no value, there is no point.
    pub(crate) points: Vec<(f64, f64)>,
}

impl Line {
    /// The value at the place that is nearest.
    pub(crate) fn at(&self, x: f64) -> Option<f64> {
        let near = self.points.iter().min_by(|a, b| (a.0 - x).abs().total_cmp(&(b.0 - x).abs()))?;
        // Further away it would be another statement.
        ((near.0 - x).abs() <= 0.02 * x.abs().max(near.0.abs())).then_some(near.1)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = f64> + '_ {
        self.points.iter().map(|(_, y)| *y)
    }
}

/// A plot, or a table of the same numbers.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    /// Names along the axis, if it has names.
    pub(crate) ticks: Vec<String>,
    /// The lines are parts of bars that stand on each other.
    pub(crate) stacked: bool,
    pub(crate) lines: Vec<Line>,
}

impl Panel {
    pub(crate) fn line(&self, name: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.name == name)
    }
}

/// What came out.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Findings {
    pub(crate) panels: Vec<Panel>,
    /// What has to be known to read them: sizes, what was assumed, what was traced.
    pub(crate) notes: Vec<String>,
}

impl Findings {
    pub(crate) fn panel(&self, title: &str) -> Option<&Panel> {
        self.panels.iter().find(|panel| panel.title == title)
    }

    /// A line of a panel.
    pub(crate) fn line(&self, panel: usize, line: &str) -> Option<&Line> {
        self.panels.get(panel)?.line(line)
    }

    /// The value of a line of a panel at a place.
    pub(crate) fn at(&self, panel: usize, line: &str, x: f64) -> Option<f64> {
        self.panels.get(panel)?.line(line)?.at(x)
    }
}

/// A check as it came out.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Verdict {
    pub(crate) claim: &'static str,
    /// Where in the paper it stands.
    pub(crate) place: Option<String>,
    /// What the paper says; none without the claims.
    pub(crate) paper: Option<String>,
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) ours: Option<f64>,
    pub(crate) rule: String,
    /// None if there is nothing to compare with.
    pub(crate) agrees: Option<bool>,
    /// Why not.
    pub(crate) why_not: Option<&'static str>,
}

/// A figure as it came out.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) seconds: f64,
    #[serde(flatten)]
    pub(crate) findings: Findings,
    pub(crate) statements: Vec<Verdict>,
}

impl Figure {
    /// Makes it, and holds it against its paper.
    pub(crate) fn outcome(&self, lab: &Lab<'_>, claims: Option<&Claims>) -> Result<Outcome, Error> {
        let started = std::time::Instant::now();
        let findings = (self.run)(lab)?;
        let statements = self.checks.iter().map(|check| check.verdict(&findings, claims)).collect();
        Ok(Outcome { name: self.name, title: self.title, seconds: started.elapsed().as_secs_f64(), findings, statements })
    }
}

impl Check {
    /// A check in one line.
    pub(super) const fn new(
        claim: &'static str,
        what: &'static str,
        unit: &'static str,
        measure: fn(&Findings) -> Option<f64>,
        rule: Rule,
        otherwise: &'static str,
    ) -> Check {
        Check { claim, what, unit, measure, rule, otherwise }
    }

    fn verdict(&self, findings: &Findings, claims: Option<&Claims>) -> Verdict {
        let ours = (self.measure)(findings);
        let claim = claims.and_then(|claims| claims.get(self.claim));
        let agrees = claim.map(|claim| ours.is_some_and(|ours| self.rule.agrees(ours, claim.number())));
        Verdict {
            claim: self.claim,
            place: claim.map(|claim| claim.place.clone()),
            paper: claim.map(super::claims::Claim::text),
            what: self.what,
            unit: self.unit,
            ours,
            rule: self.rule.words(self.unit),
            agrees,
            why_not: (agrees == Some(false)).then_some(self.otherwise),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_can_fail() {
        let both = |rule: Rule, yes: f64, no: f64| {
            assert!(rule.agrees(yes, Some(50.0)) && !rule.agrees(no, Some(50.0)), "{rule:?}");
        };
        both(Rule::AtLeast(5.0), 45.0, 44.0);
        both(Rule::AtMost(5.0), 55.0, 56.0);
        both(Rule::Within(5.0), 55.0, 44.0);
        both(Rule::Factor(2.0), 25.0, 101.0);
        both(Rule::NotBelow(1.0), 1.0, 0.9);
        both(Rule::NotAbove(1.0), 1.0, 1.1);
        assert!(!Rule::Within(5.0).agrees(50.0, None), "there is nothing to be near to");
        assert!(!Rule::AtLeast(0.0).agrees(f64::NAN, Some(1.0)));
    }

    #[test]
    fn a_value_is_taken_only_from_near_its_place() {
        let line = Line { name: "a".into(), points: vec![(53.0, 1.0), (80.0, 2.0)] };
        assert_eq!((line.at(53.3), line.at(80.0), line.at(60.0)), (Some(1.0), Some(2.0), None));
    }
}
