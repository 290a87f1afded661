package main

import (
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// commands are the commands of the model, the whole program first.
func commands(t *testing.T) []*kong.Node {
	t.Helper()
	parser, err := newParser(&cli{}, nil, io.Discard, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	all := []*kong.Node{parser.Model.Node}
	for i := 0; i < len(all); i++ {
		all = append(all, all[i].Children...)
	}
	return all
}

// words are those that name a command.
func words(command *kong.Node) []string {
	if command.Type != kong.CommandNode {
		return nil
	}
	return append(words(command.Parent), command.Name)
}

func helpOf(t *testing.T, command *kong.Node) string {
	t.Helper()
	args := append(words(command), "--help")
	var out, talk safeBuffer
	if code := run(t.Context(), args, nil, strings.NewReader(""), &out, &talk); code != codeOK {
		t.Fatalf("%v: got exit code %d, want 0: %s", args, code, talk.String())
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

func TestHelpIsComplete(t *testing.T) {
	t.Parallel()
	for _, command := range commands(t) {
		help := helpOf(t, command)
		if command.Help == "" || !strings.Contains(help, strings.Join(strings.Fields(command.Help), " ")) {
			t.Errorf("%s: its help %q is not in\n%s", command.Name, command.Help, help)
		}
		for _, arg := range command.Positional {
			if arg.Help == "" || !strings.Contains(help, arg.Help) {
				t.Errorf("%s <%s>: its help %q is not in\n%s", command.Name, arg.Name, arg.Help, help)
			}
		}
		for _, flag := range command.Flags {
			if flag.Help == "" || !strings.Contains(help, "--"+flag.Name) || !strings.Contains(help, flag.Help) {
				t.Errorf("%s --%s: its help %q is not in\n%s", command.Name, flag.Name, flag.Help, help)
			}
			if hasTwin(flag.Name) && !strings.Contains(help, "($"+envTwin(flag.Name)+")") {
				t.Errorf("%s --%s: its twin %s is not in\n%s", command.Name, flag.Name, envTwin(flag.Name), help)
			}
		}
	}
}

// twinValues are values that flags of these types accept.
var twinValues = map[reflect.Kind]string{reflect.Bool: "true", reflect.Int: "7", reflect.Int64: "7", reflect.Struct: "2999-01-02T03:04:05Z"}

func TestEveryFlagHasATwin(t *testing.T) {
	t.Parallel()
	byRule := regexp.MustCompile(`^AIRLOCK_[A-Z][A-Z_]*$`)
	types := map[string]reflect.Type{}
	for _, command := range commands(t)[1:] {
		for _, flag := range command.Flags {
			if !hasTwin(flag.Name) {
				continue
			}
			twin := envTwin(flag.Name)
			if !byRule.MatchString(twin) {
				t.Errorf("--%s: got twin %s, want it by the rule", flag.Name, twin)
			}
			// One variable stands for a flag of all commands, so it must
			// mean the same in each.
			if other, ok := types[twin]; ok && other != flag.Target.Type() {
				t.Errorf("%s %s: got type %s here and %s elsewhere", command.Name, twin, flag.Target.Type(), other)
			}
			types[twin] = flag.Target.Type()
			if got, want := parseTwin(t, command, flag, twin); got != want {
				t.Errorf("%s with %s: got %s, want %s", command.Name, twin, got, want)
			}
		}
	}
	if len(types) < 30 {
		t.Errorf("got %d flags, want all of them", len(types))
	}
}

// parseTwin gives the flag a value by its twin and by the command line, and
// returns what came of each.
func parseTwin(t *testing.T, command *kong.Node, flag *kong.Flag, twin string) (got, want string) {
	t.Helper()
	value, ok := twinValues[flag.Target.Kind()]
	if !ok {
		value = "ok"
	}
	args := words(command)
	if len(command.Children) > 0 {
		args = append(args, words(command.Children[0])[len(args):]...)
	}
	for _, arg := range command.Positional {
		sample := "x"
		if arg.Target.Kind() == reflect.Array {
			sample = "01920000-0000-7000-8000-000000000000"
		}
		args = append(args, sample)
	}
	parse := func(env, args []string) string {
		parser, err := newParser(&cli{}, env, io.Discard, io.Discard, func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		ctx, err := parser.Parse(args)
		if err != nil {
			t.Fatalf("%v with %v: %v", args, env, err)
		}
		for _, f := range ctx.Flags() {
			if f.Name == flag.Name {
				return fmt.Sprintf("%v", f.Target.Interface())
			}
		}
		return "no such flag"
	}
	return parse([]string{twin + "=" + value}, args), parse(nil, append(args, "--"+flag.Name+"="+value))
}
