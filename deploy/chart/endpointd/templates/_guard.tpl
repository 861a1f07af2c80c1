{{/* True if a controller is switched on. Of the items of --controllers, the first that names it decides; if none does, `*`. */}}
{{- define "endpointd.guard.runs" -}}
{{- $decided := "" -}}
{{- $names := .names -}}
{{- range .items -}}
{{- if and (not $decided) (has (trimPrefix "-" .) $names) -}}
{{- $decided = ternary "off" "on" (hasPrefix "-" .) -}}
{{- end -}}
{{- end -}}
{{- if or (eq $decided "on") (and (not $decided) .inStar (has "*" .items)) -}}true{{- end -}}
{{- end -}}

{{/* The managed-by labels of the controllers that are switched on, as a list in CEL. `*` does not include the last one. */}}
{{- define "endpointd.guard.managers" -}}
{{- $items := splitList "," (include "endpointd.controllers" .) -}}
{{- $slices := list "endpointslice-controller" "endpointslice" -}}
{{- $mirroring := list "endpointslice-mirroring-controller" "endpointslicemirroring" -}}
{{- $custom := list "custom-selector-controller" -}}
{{- $managers := list -}}
{{- if include "endpointd.guard.runs" (dict "items" $items "names" $slices "inStar" true) -}}
{{- $managers = append $managers "'endpointslice-controller.k8s.io'" -}}
{{- end -}}
{{- if include "endpointd.guard.runs" (dict "items" $items "names" $mirroring "inStar" true) -}}
{{- $managers = append $managers "'endpointslicemirroring-controller.k8s.io'" -}}
{{- end -}}
{{- if include "endpointd.guard.runs" (dict "items" $items "names" $custom "inStar" false) -}}
{{- $managers = append $managers "'endpointd.io'" -}}
{{- end -}}
[{{ join ", " $managers }}]
{{- end -}}

{{/* The excluded namespaces, as a list in CEL. */}}
{{- define "endpointd.guard.excluded" -}}
{{- $excluded := list -}}
{{- range .Values.guard.excludedNamespaces -}}
{{- $excluded = append $excluded (printf "'%s'" .) -}}
{{- end -}}
[{{ join ", " $excluded }}]
{{- end -}}
