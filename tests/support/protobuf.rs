//! Objects in protobuf, as the API server sends them, from JSON.

use endpointd::cluster::codec::{self, Decode, Namespaced};
use serde_json::Value;

/// The fields of messages: their numbers, and what they hold if that is neither a text, a number nor a truth value.
const MESSAGES: &str = "
Cause reason=1 message=2 field=3
Condition type=1 status=2 lastTransitionTime=4:Time reason=5 message=6
Conditions ready=1 serving=2 terminating=3
Container name=1 ports=6:ContainerPort restartPolicy=24
ContainerPort name=1 containerPort=3 protocol=4
Details name=1 group=2 kind=3 causes=4:Cause retryAfterSeconds=5
Endpoint addresses=1 conditions=2:Conditions hostname=3 targetRef=4:Reference deprecatedTopology=5:Map nodeName=6 zone=7 hints=8:Hints
EndpointAddress ip=1 targetRef=2:Reference hostname=3 nodeName=4
EndpointPort name=1 port=2 protocol=3 appProtocol=4
Endpoints metadata=1:Meta subsets=2:Subset
EndpointSlice metadata=1:Meta endpoints=2:Endpoint ports=3:SlicePort addressType=4
Gate conditionType=1
Hint name=1
Hints forZones=1:Hint forNodes=2:Hint
ListMeta resourceVersion=2 continue=3
Managed manager=1 operation=2 time=4:Time
Meta name=1 generateName=2 namespace=3 uid=5 resourceVersion=6 creationTimestamp=8:Time deletionTimestamp=9:Time labels=11:Map annotations=12:Map ownerReferences=13:Owner finalizers=14 managedFields=17:Managed
Node metadata=1:Meta status=3:NodeStatus
NodeStatus allocatable=2:Quantities conditions=4:Condition
Owner kind=1 name=3 uid=4 apiVersion=5 controller=6 blockOwnerDeletion=7
PartialObjectMetadata metadata=1:Meta
Pod metadata=1:Meta spec=2:PodSpec status=3:PodStatus
PodIp ip=1
PodSpec containers=2:Container nodeName=10 hostname=16 subdomain=17 initContainers=20:Container readinessGates=28:Gate
PodStatus phase=1 conditions=2:Condition reason=4 podIP=6 podIPs=12:PodIp
Reference kind=1 namespace=2 name=3 uid=4 apiVersion=5 resourceVersion=6 fieldPath=7
Service metadata=1:Meta spec=2:ServiceSpec
ServicePort name=1 protocol=2 port=3 targetPort=4:IntOrString appProtocol=6
ServiceSpec ports=1:ServicePort selector=2:Map clusterIP=3 type=4 externalName=10 publishNotReadyAddresses=13 ipFamilies=19 trafficDistribution=23
SlicePort name=1 protocol=2 port=3 appProtocol=4
Status metadata=1:ListMeta status=2 message=3 reason=4 details=5:Details code=6
Subset addresses=1:EndpointAddress notReadyAddresses=2:EndpointAddress ports=3:EndpointPort
";

/// Returns an object of a kind, or a list if its name ends so. Other fields than those above are left out. A value of
/// another type than its field's makes a malformed message.
pub(crate) fn object(kind: &str, object: &Value) -> Vec<u8> {
    let mut body = Vec::new();
    if let Some(item) = kind.strip_suffix("List") {
        put(&mut body, 1, "ListMeta", &object["metadata"]);
        put(&mut body, 2, item, &object["items"]);
    } else {
        message(&mut body, kind, object);
    }
    let mut envelope = b"k8s\0".to_vec();
    let mut named = Vec::new();
    bytes(&mut named, 2, kind.as_bytes());
    bytes(&mut envelope, 1, &named);
    bytes(&mut envelope, 2, &body);
    envelope
}

/// Returns an event of a watch.
pub(crate) fn event(change: &str, object: &[u8]) -> Vec<u8> {
    let (mut event, mut raw) = (Vec::new(), Vec::new());
    bytes(&mut raw, 1, object);
    bytes(&mut event, 1, change.as_bytes());
    bytes(&mut event, 2, &raw);
    let mut frame = (event.len() as u32).to_be_bytes().to_vec();
    frame.extend(event);
    frame
}

/// Returns what is read from an object of a kind.
pub(crate) fn facts<T>(kind: &str, object: &Value) -> T
where
    Namespaced<T>: Decode,
{
    let decoded: Result<Namespaced<T>, _> = codec::object(&self::object(kind, object));
    decoded.unwrap_or_else(|error| panic!("{object}: {error}")).facts
}

/// Returns the body of a create with a version, which it lacks and decoding asks for.
pub(crate) fn with_version(body: &[u8]) -> Vec<u8> {
    // The four bytes that objects begin with, the type with its length in a byte, and the object with its own.
    let (mut envelope, rest) = (
        body[..6 + usize::from(body[5])].to_vec(),
        &body[6 + usize::from(body[5])..],
    );
    let length = rest[1..].iter().position(|byte| *byte < 0x80).unwrap() + 1;
    let mut version = Vec::new();
    bytes(&mut version, 6, b"1");
    let mut object = rest[1 + length..].to_vec();
    bytes(&mut object, 1, &version);
    bytes(&mut envelope, 2, &object);
    envelope
}

/// The fields of a message: name, number, and type.
fn fields(name: &str) -> impl Iterator<Item = (&'static str, u32, &'static str)> {
    let mut messages = MESSAGES.lines().filter_map(|line| line.split_once(' '));
    let (_, fields) = messages.find(|(known, _)| *known == name).unwrap();
    fields.split(' ').map(|field| {
        let (name, rest) = field.split_once('=').unwrap();
        let (number, of) = rest.split_once(':').unwrap_or((rest, ""));
        (name, number.parse().unwrap(), of)
    })
}

fn message(out: &mut Vec<u8>, name: &str, object: &Value) {
    for (field, number, of) in fields(name) {
        put(out, number, of, &object[field]);
    }
}

fn put(out: &mut Vec<u8>, number: u32, of: &str, value: &Value) {
    let mut inner = Vec::new();
    match (of, value) {
        (_, Value::Null) => return,
        (_, Value::Array(items)) => return items.iter().for_each(|item| put(out, number, of, item)),
        ("Map" | "Quantities", Value::Object(pairs)) => {
            for (key, value) in pairs {
                let mut entry = Vec::new();
                bytes(&mut entry, 1, key.as_bytes());
                put(&mut entry, 2, if of == "Map" { "" } else { "Quantity" }, value);
                bytes(out, number, &entry);
            }
            return;
        }
        ("IntOrString", Value::Number(_)) => put(&mut inner, 2, "", value),
        ("IntOrString", Value::String(text)) => {
            varint(&mut inner, 1 << 3);
            varint(&mut inner, 1);
            bytes(&mut inner, 3, text.as_bytes());
        }
        ("Time", Value::String(text)) => {
            let time: jiff::Timestamp = text.parse().unwrap();
            put(&mut inner, 1, "", &time.as_second().into());
        }
        ("Quantity", Value::String(text)) => bytes(&mut inner, 1, text.as_bytes()),
        (_, Value::Object(_)) => message(&mut inner, of, value),
        (_, Value::String(text)) => inner.extend_from_slice(text.as_bytes()),
        (_, Value::Bool(_) | Value::Number(_)) => {
            varint(out, u64::from(number) << 3);
            let number = value.as_i64().unwrap_or_else(|| i64::from(*value == true));
            return varint(out, number.cast_unsigned());
        }
    }
    bytes(out, number, &inner);
}

fn bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    varint(out, u64::from(number) << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
