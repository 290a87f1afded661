package validate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// object is one document of a manifest.
type object struct {
	file string
	metav1.TypeMeta
	metav1.Object
	// is the typed object.
	is any
}

func (o object) String() string {
	return fmt.Sprintf("%s: %s %s/%s", o.file, o.Kind, o.GetNamespace(), o.GetName())
}

// known makes an empty object of each kind that manifests may have.
var known = map[metav1.TypeMeta]func() metav1.Object{
	{APIVersion: "v1", Kind: "Namespace"}:                       func() metav1.Object { return new(corev1.Namespace) },
	{APIVersion: "v1", Kind: "ConfigMap"}:                       func() metav1.Object { return new(corev1.ConfigMap) },
	{APIVersion: "v1", Kind: "Service"}:                         func() metav1.Object { return new(corev1.Service) },
	{APIVersion: "v1", Kind: "ServiceAccount"}:                  func() metav1.Object { return new(corev1.ServiceAccount) },
	{APIVersion: "apps/v1", Kind: "StatefulSet"}:                func() metav1.Object { return new(appsv1.StatefulSet) },
	{APIVersion: "apps/v1", Kind: "Deployment"}:                 func() metav1.Object { return new(appsv1.Deployment) },
	{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}:      func() metav1.Object { return new(policyv1.PodDisruptionBudget) },
	{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}: func() metav1.Object { return new(networkingv1.NetworkPolicy) },
	{APIVersion: "node.k8s.io/v1", Kind: "RuntimeClass"}:        func() metav1.Object { return new(nodev1.RuntimeClass) },
}

// load decodes all manifests. A field that the schema lacks is an error, and
// so is one that is given twice.
func load(manifests fs.FS) ([]object, error) {
	names, err := fs.Glob(manifests, "*.yaml")
	if err != nil {
		return nil, err
	}
	var all []object
	for _, name := range names {
		raw, err := fs.ReadFile(manifests, name)
		if err != nil {
			return nil, err
		}
		found, err := decode(path.Base(name), raw)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func decode(file string, raw []byte) ([]object, error) {
	var all []object
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		o := object{file: file}
		if err := yaml.Unmarshal(document, &o.TypeMeta); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		fresh, ok := known[o.TypeMeta]
		if !ok {
			return nil, fmt.Errorf("%s: kind %s of %q is not known here: add it to the check", file, o.Kind, o.APIVersion)
		}
		o.Object = fresh()
		o.is = o.Object
		if err := yaml.UnmarshalStrict(document, o.Object); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", file, o.Kind, err)
		}
		all = append(all, o)
	}
}

// workload is what runs pods.
type workload struct {
	object
	pod  corev1.PodSpec
	tags map[string]string
}

func workloads(all []object) []workload {
	var found []workload
	for _, o := range all {
		switch is := o.is.(type) {
		case *appsv1.StatefulSet:
			found = append(found, workload{o, is.Spec.Template.Spec, is.Spec.Template.Labels})
		case *appsv1.Deployment:
			found = append(found, workload{o, is.Spec.Template.Spec, is.Spec.Template.Labels})
		}
	}
	return found
}

func (w workload) containers() []corev1.Container {
	return append(append([]corev1.Container(nil), w.pod.InitContainers...), w.pod.Containers...)
}

func mustLoad(t *testing.T, manifests fs.FS) []object {
	t.Helper()
	all, err := load(manifests)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
