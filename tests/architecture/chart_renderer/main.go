// Renders the chart's templates with Go's own engine, the one that Helm uses, and with those functions that they use.
//
//	renderer TEMPLATES < {"Values": ..., "Release": ..., "Chart": ...}
//
// writes the documents of all files. It is no Helm: no hooks, no capabilities, no look at a cluster.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"text/template"
)

func isEmpty(value any) bool {
	if value == nil {
		return true
	}
	found := reflect.ValueOf(value)
	switch found.Kind() {
	case reflect.Map, reflect.Slice, reflect.String:
		return found.Len() == 0
	default:
		return found.IsZero()
	}
}

func asInt(value any) int {
	switch number := value.(type) {
	case int:
		return number
	case float64:
		return int(number)
	default:
		return 0
	}
}

// JSON is YAML, in one line.
func toYaml(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}

func nindent(spaces int, text string) string {
	pad := strings.Repeat(" ", spaces)
	return "\n" + pad + strings.ReplaceAll(text, "\n", "\n"+pad)
}

func functions(all *template.Template) template.FuncMap {
	return template.FuncMap{
		"include": func(name string, scope any) (string, error) {
			var out bytes.Buffer
			err := all.ExecuteTemplate(&out, name, scope)
			return out.String(), err
		},
		"toYaml":  toYaml,
		"nindent": nindent,
		"quote":   func(value any) string { return fmt.Sprintf("%q", fmt.Sprint(value)) },
		"int":     asInt,
		"add":     func(one, other int) int { return one + other },
		"default": func(otherwise, value any) any {
			if isEmpty(value) {
				return otherwise
			}
			return value
		},
		"required": func(why string, value any) (any, error) {
			if isEmpty(value) {
				return nil, errors.New(why)
			}
			return value, nil
		},
		"dict": func(pairs ...any) map[string]any {
			made := map[string]any{}
			for at := 0; at+1 < len(pairs); at += 2 {
				made[pairs[at].(string)] = pairs[at+1]
			}
			return made
		},
		"list": func(items ...any) []any { return items },
		"concat": func(lists ...[]any) []any {
			made := []any{}
			for _, items := range lists {
				made = append(made, items...)
			}
			return made
		},
	}
}

func run(folder string) error {
	var scope map[string]any
	if err := json.NewDecoder(os.Stdin).Decode(&scope); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		return err
	}
	sort.Strings(files)
	all := template.New("chart")
	all.Funcs(functions(all))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if _, err := all.New(filepath.Base(file)).Parse(string(text)); err != nil {
			return err
		}
	}
	for _, file := range files {
		if strings.HasSuffix(file, ".yaml") {
			fmt.Println("\n---")
			if err := all.ExecuteTemplate(os.Stdout, filepath.Base(file), scope); err != nil {
				return err
			}
		}
	}
	return nil
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
