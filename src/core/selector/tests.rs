use super::*;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().copied().collect()
}

fn parse(text: &str) -> Selector {
    Selector::parse(text).unwrap().unwrap()
}

#[test]
fn all_pairs_must_be_there() {
    let labels = labels(&[("a", "1"), ("b", "2"), ("d", "4")]);
    let mut work = Work::default();
    let mut matches = |pairs: &[(&str, &str)]| {
        Selector::new(pairs.iter().copied().collect())
            .unwrap()
            .matches(&labels, &mut work)
    };
    assert!(matches(&[("a", "1")]));
    assert!(matches(&[("a", "1"), ("d", "4")]));
    assert!(matches(&[("a", "1"), ("b", "2"), ("d", "4")]));
    assert!(!matches(&[("a", "2")]));
    assert!(!matches(&[("a", "1"), ("c", "3")]));
    assert!(!matches(&[("c", "3"), ("d", "4")]));
    assert!(!matches(&[("e", "5")]));
    assert_eq!(work.selector_evaluations, 7);
    assert_eq!(Selector::new(Labels::default()), None);
}

#[test]
fn every_operator_selects_as_kubectl_does() {
    let web = labels(&[
        ("app", "web"),
        ("in", "x"),
        ("n", "10"),
        ("tier", "front"),
        ("void", ""),
    ]);
    for (text, selects) in [
        ("app=web", true),
        ("app == web", true),
        ("app=api", false),
        ("app!=api", true),
        ("app!=web", false),
        ("zone!=a", true),
        ("app in (web, api)", true),
        ("app in (api)", false),
        ("zone in (a)", false),
        ("app notin (api,db)", true),
        ("app notin (web,db)", false),
        ("zone notin (a)", true),
        ("tier", true),
        ("zone", false),
        ("!zone", true),
        ("!tier", false),
        ("n>9", true),
        ("n > 10", false),
        ("n<11", true),
        ("app<11", false),
        ("zone<11", false),
        ("void=", true),
        ("void", true),
        ("void in ()", true),
        ("void in (,a)", true),
        ("app in (,web)", true),
        ("app in (x,,web)", true),
        ("void in (,)", true),
        ("zone in ()", false),
        ("in", true),
        ("in in (in,x)", true),
        ("app=web,tier!=back,!legacy,n", true),
        ("app=web,tier!=front,!legacy,n", false),
        ("app=web,app=web", true),
        ("app=web,app=api", false),
        ("app=web,app in (web,api)", true),
    ] {
        let selector = parse(text);
        assert_eq!(selector.matches(&web, &mut Work::default()), selects, "{text}");
        assert_eq!(parse(&selector.to_string()), selector, "{text} as {selector}");
    }
}

#[test]
fn what_a_service_can_say_too_is_said_in_pairs() {
    let selector = parse("b in (2), a==1");
    assert_eq!(
        Some(&selector),
        Selector::new(labels(&[("a", "1"), ("b", "2")])).as_ref()
    );
    assert_eq!(selector.to_string(), "a=1,b=2");
    assert_eq!(
        parse("c,!d,b notin (2,1,2),a>5,a!=x").to_string(),
        "a!=x,a>5,b notin (1,2),c,!d"
    );
}

#[test]
fn an_empty_selector_is_told_apart() {
    for text in ["", "  ", "\n\t"] {
        assert_eq!(Selector::parse(text), Ok(None), "{text:?}");
    }
}

#[test]
fn errors_say_where_and_why() {
    let long = "a".repeat(64);
    for (text, error) in [
        ("app in web", "column 8: found \"web\", expected \"(\""),
        (
            "app in (web",
            "column 12: the text ends, expected a comma or \")\"",
        ),
        (
            "app in (web api)",
            "column 13: found \"api\", expected a comma or \")\"",
        ),
        (
            "app = web tier",
            "column 11: found \"tier\", expected a comma or the end",
        ),
        ("app in (web,,)", "column 14: found \")\", expected a value"),
        ("app,", "column 5: the text ends, expected a key or \"!\""),
        (",app", "column 1: found \",\", expected a key or \"!\""),
        ("app,,b", "column 5: found \",\", expected a key or \"!\""),
        ("!app=web", "column 5: found \"=\", expected a comma or the end"),
        ("!", "column 2: the text ends, expected a key"),
        (
            "app ~ web",
            "column 5: found \"~\", expected =, ==, !=, >, <, in or notin",
        ),
        ("app=(web)", "column 5: found \"(\", expected a value"),
        ("app===web", "column 6: found \"=\", expected a value"),
        ("-app=web", "column 1: \"-app\" is not a label key"),
        ("a/b/c", "column 1: \"a/b/c\" is not a label key"),
        ("Example.com/a", "column 1: \"Example.com/a\" is not a label key"),
        ("/a", "column 1: \"/a\" is not a label key"),
        ("example.com/", "column 1: \"example.com/\" is not a label key"),
        ("app=web-", "column 5: \"web-\" is not a label value"),
        ("app=wéb", "column 5: \"wéb\" is not a label value"),
        ("n>five", "column 3: \"five\" is not an integer"),
        ("n>", "column 3: \"\" is not an integer"),
        (
            "n<99999999999999999999",
            "column 3: \"99999999999999999999\" is not an integer",
        ),
    ] {
        assert_eq!(Selector::parse(text).unwrap_err().to_string(), error, "{text}");
    }
    let error = Selector::parse(&format!("app={long}")).unwrap_err();
    assert!(matches!(error, SelectorError::Value { column: 5, .. }), "{error}");
}

#[test]
fn a_selector_has_at_most_a_hundred_values() {
    let values = |count: usize| (0..count).map(|n| format!("v{n}")).collect::<Vec<_>>();
    assert!(Selector::parse(&format!("a in ({})", values(100).join(","))).is_ok());
    let keys = Selector::parse(&values(100).join(","));
    assert_eq!(keys.unwrap().unwrap().requirements().count(), 100);
    for text in [
        format!("a in ({})", values(101).join(",")),
        format!(
            "a notin ({}),b in ({})",
            values(60).join(","),
            values(41).join(",")
        ),
        values(101).join(","),
        format!("!{}", values(101).join(",!")),
        format!("{}=1", values(101).join("=1,")),
        "a in (,".to_owned() + &",".repeat(200_000),
    ] {
        let error = Selector::parse(&text).unwrap_err();
        assert!(matches!(error, SelectorError::TooManyValues { .. }), "{error}");
    }
    let error = Selector::parse(&format!("a in ({})", values(33_000).join(","))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "column 397: a selector here may have no more than 100 values"
    );
}

#[test]
fn no_text_makes_the_parser_fail_in_another_way() {
    let alphabet = [
        "a", "in", "notin", "=", "!", "(", ")", ",", ">", "<", " ", "1", "é", "/", "-",
    ];
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..50_000 {
        let length = random.usize(..12);
        let text: String = (0..length)
            .map(|_| alphabet[random.usize(..alphabet.len())])
            .collect();
        if let Ok(Some(selector)) = Selector::parse(&text) {
            assert_eq!(parse(&selector.to_string()), selector, "{text}");
        }
    }
}
