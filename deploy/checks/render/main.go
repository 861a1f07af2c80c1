// Renders a Helm chart as `helm template` does, for machines that have no helm: Go's own text/template, Sprig, and the
// few functions that Helm adds. What charts here do not use (subcharts, hooks, lookup) is left out, and refused.
//
// Usage: render CHART RELEASE NAMESPACE [VALUES-FILE | key.path=value]...
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

// recursionLimit is how often one template may include itself.
const recursionLimit = 1000

type object = map[string]interface{}

// files is what templates see as .Files.
type files map[string][]byte

// Get is the text of a file of the chart, or nothing.
func (f files) Get(name string) string { return string(f[name]) }

// apiVersions is what templates see as .Capabilities.APIVersions.
type apiVersions struct{}

// Has is always false: nothing is known of a cluster.
func (apiVersions) Has(string) bool { return false }

func main() {
	if len(os.Args) < 4 {
		fail(errors.New("usage: render CHART RELEASE NAMESPACE [VALUES-FILE | key.path=value]..."))
	}
	out, err := render(os.Args[1], os.Args[2], os.Args[3], os.Args[4:])
	if err != nil {
		fail(err)
	}
	fmt.Print(out)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "Error:", err)
	os.Exit(1)
}

func render(dir, release, namespace string, overrides []string) (string, error) {
	chart, values := object{}, object{}
	if err := readYAML(filepath.Join(dir, "Chart.yaml"), &chart); err != nil {
		return "", err
	}
	if chart["dependencies"] != nil {
		return "", errors.New("charts with dependencies cannot be rendered by this")
	}
	if err := readYAML(filepath.Join(dir, "values.yaml"), &values); err != nil {
		return "", err
	}
	for _, override := range overrides {
		extra := object{}
		if name, text, found := strings.Cut(override, "="); found {
			var value interface{}
			if err := yaml.Unmarshal([]byte(text), &value); err != nil {
				return "", err
			}
			keys := strings.Split(name, ".")
			at := extra
			for _, key := range keys[:len(keys)-1] {
				next := object{}
				at[key] = next
				at = next
			}
			at[keys[len(keys)-1]] = value
		} else if err := readYAML(override, &extra); err != nil {
			return "", err
		}
		merge(values, extra)
	}
	if os.Getenv("RENDER_VALUES") != "" {
		text, err := json.Marshal(values)
		return string(text), err
	}

	all, err := load(dir)
	if err != nil {
		return "", err
	}
	data := object{
		"Values": values,
		// Of the fields of Chart.yaml, templates see the ones with capitals.
		"Chart": capitals(chart),
		"Release": object{
			"Name": release, "Namespace": namespace, "Service": "Helm", "Revision": 1,
			"IsInstall": true, "IsUpgrade": false,
		},
		"Capabilities": object{
			"KubeVersion": object{"Version": "v1.36.0", "Major": "1", "Minor": "36", "GitVersion": "v1.36.0"},
			"APIVersions": apiVersions{},
		},
		"Files":     other(all),
		"Subcharts": object{},
	}
	return execute(fmt.Sprint(chart["name"]), all, data)
}

func capitals(chart object) object {
	out := object{}
	for key, value := range chart {
		switch key {
		case "apiVersion":
			key = "APIVersion"
		default:
			key = strings.ToUpper(key[:1]) + key[1:]
		}
		out[key] = value
	}
	return out
}

// merge lays extra over values: maps are merged, null takes a key away, all else is replaced.
func merge(values, extra object) {
	for key, value := range extra {
		old, oldIsMap := values[key].(object)
		new, newIsMap := value.(object)
		switch {
		case value == nil:
			delete(values, key)
		case oldIsMap && newIsMap:
			merge(old, new)
		default:
			values[key] = value
		}
	}
}

func readYAML(name string, into interface{}) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func load(dir string) (files, error) {
	all := files{}
	err := filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		all[filepath.ToSlash(relative)] = text
		return err
	})
	return all, err
}

// other is what templates may read: not the templates, nor what makes the chart one.
func other(all files) files {
	out := files{}
	for name, text := range all {
		switch {
		case strings.HasPrefix(name, "templates/"), strings.HasPrefix(name, "charts/"):
		case name == "Chart.yaml", name == "values.yaml", name == "values.schema.json", name == "Chart.lock":
		default:
			out[name] = text
		}
	}
	return out
}

func execute(chart string, all files, data object) (string, error) {
	// Helm sets missingkey=zero and takes the `<no value>` that this still prints for maps of interfaces away.
	root := template.New("gotpl").Option("missingkey=zero")
	root.Funcs(functions(root))
	var names []string
	for name := range all {
		if strings.HasPrefix(name, "templates/") {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		if _, err := root.New(chart + "/" + name).Parse(string(all[name])); err != nil {
			return "", fmt.Errorf("parse error at %s: %w", name, err)
		}
	}
	var out strings.Builder
	for _, name := range names {
		base := path.Base(name)
		if strings.HasPrefix(base, "_") {
			continue
		}
		full := chart + "/" + name
		data["Template"] = object{"Name": full, "BasePath": chart + "/templates"}
		var text bytes.Buffer
		if err := root.ExecuteTemplate(&text, full, data); err != nil {
			return "", fmt.Errorf("execution error at %s: %w", name, err)
		}
		rendered := strings.ReplaceAll(text.String(), "<no value>", "")
		if base == "NOTES.txt" {
			if os.Getenv("RENDER_NOTES") != "" {
				return rendered, nil
			}
			continue
		}
		if strings.TrimSpace(rendered) != "" {
			fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", full, strings.TrimSpace(rendered))
		}
	}
	return out.String(), nil
}

func functions(root *template.Template) template.FuncMap {
	out := sprig.TxtFuncMap()
	delete(out, "env")
	delete(out, "expandenv")
	depth := map[string]int{}
	out["include"] = func(name string, data interface{}) (string, error) {
		if depth[name]++; depth[name] > recursionLimit {
			return "", fmt.Errorf("%s includes itself without end", name)
		}
		defer func() { depth[name]-- }()
		var text strings.Builder
		err := root.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	out["required"] = func(message string, value interface{}) (interface{}, error) {
		if text, isText := value.(string); value == nil || isText && text == "" {
			return value, errors.New(message)
		}
		return value, nil
	}
	out["toYaml"] = func(value interface{}) string {
		text, err := yaml.Marshal(value)
		if err != nil {
			return ""
		}
		return strings.TrimSuffix(string(text), "\n")
	}
	out["toJson"] = func(value interface{}) string {
		text, err := json.Marshal(value)
		if err != nil {
			return ""
		}
		return string(text)
	}
	out["fromYaml"] = func(text string) object {
		value := object{}
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			value["Error"] = err.Error()
		}
		return value
	}
	return out
}
