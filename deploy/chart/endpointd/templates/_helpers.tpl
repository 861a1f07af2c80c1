{{/* The name of all objects. It does not contain the release's name, so that a second release in the cluster collides. */}}
{{- define "endpointd.name" -}}
{{- default "endpointd" .Values.fullnameOverride -}}
{{- end -}}

{{- define "endpointd.serviceAccount" -}}
{{- default (include "endpointd.name" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "endpointd.selectorLabels" -}}
app.kubernetes.io/name: endpointd
{{- end -}}

{{- define "endpointd.labels" -}}
{{ include "endpointd.selectorLabels" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Those of the audit: no selector of the controller's matches them. */}}
{{- define "endpointd.audit.labels" -}}
{{- include "endpointd.labels" . | replace "app.kubernetes.io/name: endpointd" "app.kubernetes.io/name: endpointd-audit" }}
{{- end -}}

{{- define "endpointd.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{/* True if a lease is taken. A shadow takes none, since it writes nothing. */}}
{{- define "endpointd.elects" -}}
{{- if and .Values.leaderElection.enabled (not .Values.shadow) -}}true{{- end -}}
{{- end -}}

{{/* --controllers. */}}
{{- define "endpointd.controllers" -}}
{{- if eq .Values.mode "opt-in" -}}custom-selector-controller{{- else -}}{{ .Values.controllers }}{{- end -}}
{{- end -}}

{{/* True if Endpoints are mirrored into slices. Of the items of the list, the first that names the controller decides. */}}
{{- define "endpointd.mirrors" -}}
{{- $decided := "" -}}
{{- $items := splitList "," (include "endpointd.controllers" .) -}}
{{- range $items -}}
{{- if and (not $decided) (has (trimPrefix "-" .) (list "endpointslice-mirroring-controller" "endpointslicemirroring")) -}}
{{- $decided = ternary "off" "on" (hasPrefix "-" .) -}}
{{- end -}}
{{- end -}}
{{- if or (eq $decided "on") (and (not $decided) (has "*" $items)) -}}true{{- end -}}
{{- end -}}

{{/* Alerts or the dashboard, with the value's name for the label that tells clusters apart. The dashboard's variable keeps its name. */}}
{{- define "endpointd.withClusterLabel" -}}
{{- $text := regexReplaceAll "\\b(by|on) \\(cluster\\b" .text (printf "${1} (%s" .label) -}}
{{- $text = regexReplaceAll "\\bcluster=~" $text (printf "%s=~" .label) -}}
{{- $text = regexReplaceAll "\\{\\{cluster\\}\\}" $text (printf "{{%s}}" .label) -}}
{{- regexReplaceAll "(label_values\\([^)]*), cluster\\)" $text (printf "${1}, %s)" .label) -}}
{{- end -}}

{{/* The affinity of controlPlane, which takes the place of the values'. */}}
{{- define "endpointd.controlPlane.affinity" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - key: node-role.kubernetes.io/control-plane
            operator: Exists
{{- end -}}

{{/* And its tolerations: that of static pods, and of nodes that are new, without a network, unknown to their cloud, or short of
something. A node that is drained is left out, so that the pod does not come back to it. */}}
{{- define "endpointd.controlPlane.tolerations" -}}
- operator: Exists
  effect: NoExecute
- key: node-role.kubernetes.io/control-plane
  operator: Exists
  effect: NoSchedule
- key: CriticalAddonsOnly
  operator: Exists
{{- range list "node.kubernetes.io/not-ready" "node.kubernetes.io/network-unavailable" "node.cloudprovider.kubernetes.io/uninitialized" "node.kubernetes.io/memory-pressure" "node.kubernetes.io/disk-pressure" "node.kubernetes.io/pid-pressure" }}
- key: {{ . }}
  operator: Exists
  effect: NoSchedule
{{- end }}
{{- end -}}

{{/* Where the kubelet asks: an address that only the node itself reaches has to be named. */}}
{{- define "endpointd.probeHost" -}}
{{- if and .Values.controlPlane.enabled (or (hasPrefix "127." .Values.admin.bindAddress) (eq "::1" .Values.admin.bindAddress)) -}}
host: {{ .Values.admin.bindAddress | quote }}
{{- end -}}
{{- end -}}

{{- define "endpointd.scheme" -}}
{{- if .Values.admin.tls.secretName -}}HTTPS{{- else -}}HTTP{{- end -}}
{{- end -}}
