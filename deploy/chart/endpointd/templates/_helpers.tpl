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

{{/* True if custom-selector-controller is switched on. `*` does not include it. */}}
{{- define "endpointd.custom" -}}
{{- $items := splitList "," (include "endpointd.controllers" .) -}}
{{- include "endpointd.guard.runs" (dict "items" $items "names" (list "custom-selector-controller") "inStar" false) -}}
{{- end -}}

{{/* Alerts or the dashboard, with the value's name for the label that tells clusters apart. The dashboard's variable keeps its name. */}}
{{- define "endpointd.withClusterLabel" -}}
{{- $text := regexReplaceAll "\\b(by|on) \\(cluster\\b" .text (printf "${1} (%s" .label) -}}
{{- $text = regexReplaceAll "\\bcluster=~" $text (printf "%s=~" .label) -}}
{{- $text = regexReplaceAll "\\{\\{cluster\\}\\}" $text (printf "{{%s}}" .label) -}}
{{- regexReplaceAll "(label_values\\([^)]*), cluster\\)" $text (printf "${1}, %s)" .label) -}}
{{- end -}}

{{- define "endpointd.scheme" -}}
{{- if .Values.admin.tls.secretName -}}HTTPS{{- else -}}HTTP{{- end -}}
{{- end -}}
