package validate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// may are the few rights beyond Kubernetes' restricted level, and who has
// them. dev/k8s/30-worker.yaml says what each is needed for.
var may = map[string][]corev1.Capability{"worker": {"KILL", "SETGID", "SETUID", "SYS_PTRACE"}}

// check returns what in the manifests breaks a rule.
func check(all []object) (broken []string) {
	for _, o := range all {
		if clusterWide := o.Kind == "Namespace" || o.Kind == "RuntimeClass"; (o.GetNamespace() == "") != clusterWide {
			broken = append(broken, fmt.Sprintf("%s: wants a namespace, or none", o))
		}
		if o.Kind == "Secret" {
			broken = append(broken, fmt.Sprintf("%s: secrets are referenced only", o))
		}
	}
	for _, w := range workloads(all) {
		for _, no := range checkPod(w, all) {
			broken = append(broken, fmt.Sprintf("%s: %s", w, no))
		}
		for _, c := range w.containers() {
			for _, no := range checkContainer(w, c) {
				broken = append(broken, fmt.Sprintf("%s: container %s: %s", w, c.Name, no))
			}
		}
	}
	return append(broken, checkNetwork(all)...)
}

func checkPod(w workload, all []object) (no []string) {
	wants := func(ok bool, rule string) {
		if !ok {
			no = append(no, rule)
		}
	}
	p, s := w.pod, w.pod.SecurityContext
	wants(!p.HostNetwork && !p.HostPID && !p.HostIPC, "shares a namespace of the node")
	wants(p.AutomountServiceAccountToken != nil && !*p.AutomountServiceAccountToken, "mounts a service account's token")
	wants(p.ServiceAccountName != "" && p.ServiceAccountName != "default", "has no service account of its own")
	wants(p.EnableServiceLinks != nil && !*p.EnableServiceLinks, "has the other services in its environment")
	for _, v := range p.Volumes {
		wants(v.HostPath == nil, "mounts "+v.Name+" from the node")
	}
	wants(s != nil && s.SeccompProfile != nil && s.SeccompProfile.Type != corev1.SeccompProfileTypeUnconfined, "has no seccomp profile")
	unprivilegedRoot := p.HostUsers != nil && !*p.HostUsers
	wants(s != nil && (s.RunAsNonRoot != nil && *s.RunAsNonRoot || unprivilegedRoot), "may be the node's root")
	wants(slices.ContainsFunc(all, func(o object) bool {
		return o.Kind == "ServiceAccount" && o.GetName() == p.ServiceAccountName && o.GetNamespace() == w.GetNamespace()
	}),
		"has a service account that is not in the set")
	return no
}

func checkContainer(w workload, c corev1.Container) (no []string) {
	wants := func(ok bool, rule string) {
		if !ok {
			no = append(no, rule)
		}
	}
	s := c.SecurityContext
	if s == nil {
		return []string{"has no security context"}
	}
	wants(s.Privileged == nil || !*s.Privileged, "is privileged")
	wants(s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation, "may gain privileges")
	wants(s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem, "may write its root")
	wants(s.Capabilities != nil && slices.Contains(s.Capabilities.Drop, "ALL"), "keeps capabilities")
	if s.Capabilities != nil {
		for _, added := range s.Capabilities.Add {
			wants(slices.Contains(may[w.GetName()], added), fmt.Sprintf("has capability %s", added))
		}
	}
	unprivilegedRoot := w.pod.HostUsers != nil && !*w.pod.HostUsers
	wants(s.ProcMount == nil || *s.ProcMount == corev1.DefaultProcMount || unprivilegedRoot, "sees all of the node's /proc")
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit, limited := c.Resources.Limits[name]
		request, requested := c.Resources.Requests[name]
		wants(limited && requested && request.Cmp(limit) <= 0, fmt.Sprintf("has no request and limit of %s, or they are crossed", name))
	}
	wants(c.ReadinessProbe != nil && c.StartupProbe != nil, "has no probe of its start or readiness")
	wants(c.LivenessProbe != nil || len(c.Ports) == 0, "serves and has no liveness probe")
	mounted := map[string]bool{}
	for _, v := range w.pod.Volumes {
		mounted[v.Name] = true
	}
	for _, m := range c.VolumeMounts {
		wants(mounted[m.Name] || w.Kind == "StatefulSet", "mounts "+m.Name+", which the pod lacks")
	}
	for _, e := range c.Env {
		wants(e.Value == "" || e.ValueFrom == nil, "has two values for "+e.Name)
	}
	return no
}

// checkNetwork: each namespace denies by default, and each workload, selector
// and policy finds pods.
func checkNetwork(all []object) (broken []string) {
	denied := map[string]bool{}
	for _, o := range all {
		policy, ok := o.is.(*networkingv1.NetworkPolicy)
		if !ok {
			continue
		}
		selector := policy.Spec.PodSelector
		if len(selector.MatchLabels) == 0 && len(policy.Spec.PolicyTypes) == 2 && len(policy.Spec.Ingress)+len(policy.Spec.Egress) == 0 {
			denied[o.GetNamespace()] = true
			continue
		}
		if !finds(all, o.GetNamespace(), &selector) {
			broken = append(broken, fmt.Sprintf("%s: is for pods that are not in the set", o))
		}
	}
	for _, o := range all {
		if o.Kind == "Namespace" && !denied[o.GetName()] {
			broken = append(broken, fmt.Sprintf("%s: is not closed by default", o))
		}
		if service, ok := o.is.(*corev1.Service); ok && !finds(all, o.GetNamespace(), &metav1.LabelSelector{MatchLabels: service.Spec.Selector}) {
			broken = append(broken, fmt.Sprintf("%s: finds no pods", o))
		}
	}
	return broken
}

func finds(all []object, namespace string, by *metav1.LabelSelector) bool {
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(workloads(all), func(w workload) bool {
		return w.GetNamespace() == namespace && selector.Matches(labels.Set(w.tags))
	})
}
